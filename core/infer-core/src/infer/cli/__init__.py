"""The command line `infer`. Help and listings read data only; a command's module is imported when it runs."""
