"""From the user's own measurements to the few numbers of their stack: loads, fit, errors before and after."""
