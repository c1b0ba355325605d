"""Random and mutated inputs for every reader: an answer or one sentence, quickly, in little memory."""
