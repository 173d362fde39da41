// The error of an execution: message, the lines of the stored version around it, and whether the version before had
// that line too.

import { visible } from "../format.ts";
import { Link } from "../parts/link.tsx";
import { Ago, Copy, FunctionName, More, Name, PayloadText, RedactedChip } from "../parts/small.tsx";
import { type ErrorSource, type Execution, type Frame, isRedacted } from "../rows.ts";
import { urls } from "../urls.ts";

function framesOf(row: Execution): readonly Frame[] {
  const frames = row.error?.frames;
  return frames && !isRedacted(frames) ? (frames as unknown as Frame[]) : [];
}

export function ErrorCard({ row }: { row: Execution }) {
  const { error, error_source: source } = row;
  const frame = framesOf(row).at(-1);
  if (!error) return null;
  return (
    <section class="error-card" aria-label="Error">
      <p class="error-message">
        <b>{error.type ?? row.state.replace("_", " ")}</b>
        {error.message && (
          <>
            {": "}
            <PayloadText text={error.message} />
          </>
        )}
      </p>
      {error.final && (
        <p class="dim">
          Not tried again: <Name text={error.final} />
        </p>
      )}
      {source && <SourceLines of={source} />}
      {!source && frame?.code && (
        <pre class="source-lines">
          <Line number={frame.line} text={frame.code} hit />
        </pre>
      )}
      {isRedacted(error.traceback) && <RedactedChip needs={error.traceback.redacted} />}
      {typeof error.traceback === "string" && (
        <details>
          <summary>Traceback</summary>
          <pre class="code-box" tabIndex={0}>{visible(error.traceback)}</pre>
          <Copy text={error.traceback} what="traceback" />
        </details>
      )}
    </section>
  );
}

function SourceLines({ of }: { of: ErrorSource }) {
  return (
    <>
      <p class="dim source-head">
        <Link to={urls.version(of.function, of.version)}>
          <FunctionName name={of.function} version={of.version} />
        </Link>{" "}
        {of.module && (
          <>
            <code>{of.module}</code>{" "}
          </>
        )}
        line {of.line}
        {of.changed && (
          <>
            , changed in v{of.version}
            {of.author && (
              <>
                {" "}
                by <Name text={of.author} />
              </>
            )}{" "}
            <Ago time={of.created_at} /> <More to={urls.diff(of.function, of.version - 1, of.version)}>diff</More>
          </>
        )}
      </p>
      <pre class="source-lines" tabIndex={0}>
        {of.lines.map((one, at) => (
          <Line key={at} number={of.first_line + at} text={one} hit={of.first_line + at === of.line} />
        ))}
      </pre>
    </>
  );
}

function Line({ number, text, hit }: { number: number; text: string; hit: boolean }) {
  return (
    <span class={hit ? "source-line hit" : "source-line"}>
      <span class="source-number">{number}</span>
      <span>{visible(text)}</span>
    </span>
  );
}
