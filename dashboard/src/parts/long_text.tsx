// A long text from outside: as it is, with its lines, and whole only when it is asked for.

import { useState } from "preact/hooks";
import { count, visible } from "../format.ts";
import { isRedacted, type Text } from "../rows.ts";
import { Button } from "./link.tsx";
import { RedactedChip } from "./small.tsx";

const FIRST = 6000;

/** The text; `prose` is for what people write, without a face of code. */
export function LongText({ of, prose }: { of: Text; prose?: boolean }) {
  const [whole, setWhole] = useState(false);
  if (isRedacted(of)) return <RedactedChip needs={of.redacted} />;
  const text = whole ? of : of.slice(0, FIRST);
  return (
    <>
      <pre class={prose ? "model-text prose" : "model-text"}>{visible(text)}</pre>
      {text.length < of.length && (
        <Button kind="plain" onClick={() => setWhole(true)}>
          Show all {count(of.length)} characters
        </Button>
      )}
    </>
  );
}
