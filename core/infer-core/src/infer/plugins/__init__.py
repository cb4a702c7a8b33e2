"""The plugin set: what is installed, what of it can run here, what is chosen, and how it is loaded.

    installed → discovery (+ check) → select → pluginset
                    `- catalog (what could be installed)      hooks (who else wants to know)

Everything up to `select` reads data only; plugin code runs for the first time in `pluginset` and `hooks`.
"""
