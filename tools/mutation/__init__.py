"""Would the tests notice a wrong formula? Formulas changed one at a time, and the tests run against each change."""
