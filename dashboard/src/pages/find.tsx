// Anything by its name or the beginning of its id.

import { useEffect } from "preact/hooks";
import { useData } from "../data.ts";
import { Link } from "../parts/link.tsx";
import { Ago, Empty, Id, Mark, Name, PageHead, Show } from "../parts/small.tsx";
import { go } from "../router.ts";
import type { SearchResult } from "../rows.ts";
import { markOf, pageOf } from "../search_results.ts";

export function FindPage({ text }: { text: string }) {
  const data = useData<readonly SearchResult[]>("/search", { q: text.slice(0, 200) });
  const only = data.data?.length === 1 ? data.data[0] : undefined;
  useEffect(() => {
    const to = only && pageOf(only);
    // The way back leads to where one came from, not to this page.
    if (to) go(to, true);
  }, [only]);
  return (
    <>
      <PageHead title={<>Find “<Name text={text} />”</>} />
      <div class="page-body">
        <Show of={data}>
          {(found) =>
            found.length === 0 ? (
              <Empty title="Nothing was found.">
                <p>Names are found by any part. Ids are found by four characters of their short form or more.</p>
              </Empty>
            ) : (
              <ul class="lines wide">
                {found.map((one) => {
                  const to = pageOf(one);
                  const name = <Name text={one.name} />;
                  return (
                    <li key={`${one.kind}${one.id}${one.name}`}>
                      <Mark name={markOf(one.kind)} tone="off" />
                      {to ? <Link to={to}>{name}</Link> : name}
                      <span class="dim">{one.kind.replace("_", " ")}</span>
                      {one.id && <Id id={one.id} to={to} />}
                      <Ago time={one.time} />
                    </li>
                  );
                })}
              </ul>
            )
          }
        </Show>
      </div>
    </>
  );
}
