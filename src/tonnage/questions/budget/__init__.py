"""What so much money buys: the largest rate, the best model, sizes of a training run, fine-tunes."""
