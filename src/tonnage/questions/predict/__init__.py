"""What will one case do? One module for each kind of case."""
