"""Programs whitened: the density of a white vector, NUTS and SVI on it, importance sampling."""
