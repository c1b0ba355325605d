"""
What happens over time? Steps follow one another: requests arrive, wait, are batched and served; a
training run computes, checkpoints, fails and resumes.

The compiled simulator and its plain-Python twin give the same answer, and the words for what they report
(TTFT, TPOT, goodput) are defined once, here, for the simulator and for the measuring client alike.
"""
