"""What runs today, as a plan of one option, and the plan that should replace it."""
