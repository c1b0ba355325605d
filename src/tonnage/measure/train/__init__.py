"""Where do the steps of a training run spend their time? A probe inside the run, and what reads its records."""
