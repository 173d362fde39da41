// The line that says how much of a tree is not in a picture of it, and where all of it is.

import { plural } from "../format.ts";
import { More } from "../parts/small.tsx";
import type { Href } from "../urls.ts";

export function LeftOut({ number, to }: { number: number; to: Href }) {
  if (number === 0) return null;
  return (
    <p class="table-note dim">
      {plural(number, "more line")} and what {number === 1 ? "it has" : "they have"} led to are not drawn.{" "}
      <More to={to}>the outline</More>
    </p>
  );
}
