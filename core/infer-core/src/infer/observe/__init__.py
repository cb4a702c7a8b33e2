"""What infer tells about itself: logging set-up and progress bars."""
