"""The Gaussian part of a posterior, and rows of linear predictors of it."""
