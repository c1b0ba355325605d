"""What somebody's own machines run: names that people type, the machine behind them, and models ranked on it."""
