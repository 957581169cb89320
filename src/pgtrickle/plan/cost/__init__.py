"""The cost model: predict the time of DIFFERENTIAL and of FULL, and choose one.

``estimate`` finds the number of rows of each step, ``work`` counts the steps and prices
them, ``fit`` corrects the price by the times of earlier refreshes, ``choose`` picks the action.
"""
