// Fuzzy search over names. Pure.

/** How well a text fits what was typed; null when a letter is missing. Higher is better. */
export function score(typed: string, text: string): number | null {
  const want = typed.toLowerCase();
  const have = text.toLowerCase();
  if (!want) return 0;
  const at = have.indexOf(want);
  if (at >= 0) return 1000 - at * 2 - have.length + (at === 0 || /[^a-z0-9]/.test(have[at - 1] ?? "") ? 200 : 0);
  let points = 0;
  let from = 0;
  for (const letter of want) {
    const found = have.indexOf(letter, from);
    if (found < 0) return null;
    const beginsWord = found === 0 || /[^a-z0-9]/.test(have[found - 1] ?? "");
    points += found === from ? 6 : beginsWord ? 4 : -Math.min(5, found - from);
    from = found + 1;
  }
  return points - have.length / 4;
}

/** The best fits, best first; equal ones keep their order. */
export function best<T>(typed: string, items: readonly T[], text: (item: T) => string, most: number): readonly T[] {
  return items
    .map((item, at) => ({ item, at, points: score(typed, text(item)) }))
    .filter((one): one is { item: T; at: number; points: number } => one.points !== null)
    .sort((a, b) => b.points - a.points || a.at - b.at)
    .slice(0, most)
    .map((one) => one.item);
}
