"""What all calculators share: the rules that their arguments are held to, exact linear algebra, and their catalogue."""
