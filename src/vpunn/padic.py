"""p-adic arithmetic on exact integers."""


def next_prime(n: int) -> int:
    """Smallest prime ≥ n."""
    n = max(2, n)
    while any(n % q == 0 for q in range(2, int(n**0.5) + 1)):
        n += 1
    return n
