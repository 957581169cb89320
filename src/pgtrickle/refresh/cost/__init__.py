"""The cost model: what a refresh would take differentially and in full, and which to do.

``estimate`` finds how many rows each step would touch, ``work`` counts the steps and prices
them, ``fit`` corrects the price by what earlier refreshes really took, ``choose`` picks the action.
"""
