"""Operations on encrypted values of any kind: what is checked and aligned, which level and scale come out."""
