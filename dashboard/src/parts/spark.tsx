// A small line of up to 60 numbers, without axes. Hover shows one of them.

import { useState } from "preact/hooks";

/** The lines through numbers in a box of 100 × 24, and the dots of numbers without neighbours. Null is a gap. Pure. */
export function sparkPaths(values: readonly (number | null)[], height = 24): { lines: string; dots: string } {
  const top = Math.max(...values.map((value) => value ?? 0), 0);
  const xOf = (at: number) => round(values.length > 1 ? (at * 100) / (values.length - 1) : 50);
  let lines = "";
  let dots = "";
  let pen = false;
  values.forEach((value, at) => {
    if (value === null) {
      pen = false;
      return;
    }
    const alone = !pen && (values[at + 1] ?? null) === null;
    const y = top === 0 ? height - 1 : height - 1 - (value / top) * (height - 3);
    if (alone) dots += `M${xOf(at)} ${round(y)}h.01`;
    else lines += `${pen ? "L" : "M"}${xOf(at)} ${round(y)}`;
    pen = true;
  });
  return { lines, dots };
}

const round = (value: number) => Number(value.toFixed(2));

/** `sentence` says what the line shows; `unit` formats one of its numbers; `labels` name its points. */
export function Spark({ values, sentence, unit = String, labels, tone, large }: {
  values: readonly (number | null)[];
  sentence: string;
  unit?: (value: number) => string;
  labels?: (at: number) => string;
  tone?: string;
  large?: boolean;
}) {
  const [at, setAt] = useState<number | null>(null);
  const value = at === null ? null : values[at];
  const { lines, dots } = sparkPaths(values);
  return (
    <span class={`spark ${large ? "large" : ""} ${tone ? `tone-${tone}` : ""}`}>
      <svg
        viewBox="0 0 100 24"
        preserveAspectRatio="none"
        role="img"
        aria-label={sentence}
        onPointerMove={(event) => {
          const box = event.currentTarget.getBoundingClientRect();
          const share = (event.clientX - box.left) / box.width;
          setAt(Math.max(0, Math.min(values.length - 1, Math.round(share * (values.length - 1)))));
        }}
        onPointerLeave={() => setAt(null)}
      >
        <path d={lines} vector-effect="non-scaling-stroke" />
        {dots && <path class="spark-dot" d={dots} vector-effect="non-scaling-stroke" />}
        {at !== null && values.length > 1 && (
          <path class="spark-at" d={`M${(at * 100) / (values.length - 1)} 0V24`} vector-effect="non-scaling-stroke" />
        )}
      </svg>
      {at !== null && (
        <span class="spark-tip">
          {labels ? `${labels(at)}: ` : ""}
          {value === null || value === undefined ? "no data" : unit(value)}
        </span>
      )}
    </span>
  );
}

/** `13 minutes ago` for the points of an hour by minutes. */
export function minuteLabel(of: number): (at: number) => string {
  return (at) => {
    const back = of - 1 - at;
    return back === 0 ? "this minute" : `${back} min ago`;
  };
}
