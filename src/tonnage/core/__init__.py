"""What two or more questions share: the driver of plans, the error model, sites, deployments, fields of requests."""
