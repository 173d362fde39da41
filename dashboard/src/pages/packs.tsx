// Packs that were imported, and what came with each.

import type { Pack } from "../api.gen.ts";
import { useData } from "../data.ts";
import { count } from "../format.ts";
import { Link } from "../parts/link.tsx";
import { Card, Copy, Empty, Mark, More, Name, PageHead, Show } from "../parts/small.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { useRows } from "../rows_here.ts";
import { type Href, urls } from "../urls.ts";

const EXAMPLE = "functory pack import stackstorm ./my-pack";

const COLUMNS: readonly Column<Pack>[] = [
  { id: "name", title: "pack", width: "minmax(20ch, 1fr)", cell: (row) => <Name text={row.name} /> },
  { id: "functions", title: "functions", width: "12ch", end: true, cell: (row) => count(row.functions.length) },
  {
    id: "triggers",
    title: "triggers",
    width: "12ch",
    priority: 2,
    end: true,
    cell: (row) => count(row.triggers.length),
  },
];

export function PacksPage() {
  const data = useData<readonly Pack[]>("/packs", {}, { every: 30 });
  const list = useRows(data, (rows) => rows, (row) => row.name);
  return (
    <>
      <PageHead title="Packs" mark={<Mark name="pack" />} />
      <Table
        list={list}
        columns={COLUMNS}
        label="Packs"
        open={(row) => urls.pack(row.name)}
        empty={
          <Empty title="No pack was imported.">
            <p>A pack brings functions and triggers that somebody else wrote.</p>
            <p>
              <Copy text={EXAMPLE} what="command">
                <code>{EXAMPLE}</code>
              </Copy>
            </p>
          </Empty>
        }
      />
    </>
  );
}

export function PackPage({ name }: { name: string }) {
  const data = useData<readonly Pack[]>("/packs", {}, { every: 30 });
  return (
    <>
      <PageHead title={<Name text={name} />} mark={<Mark name="pack" />}>
        <span>pack</span>
      </PageHead>
      <div class="page-body">
        <Show of={data}>
          {(rows) => {
            const row = rows.find((one) => one.name === name);
            if (!row)
              return (
                <Empty title="There is no such pack.">
                  <More to={urls.packs()}>All packs</More>
                </Empty>
              );
            return (
              <div class="two-columns">
                <Names title="Functions" of={row.functions} to={urls.function} none="It has no functions." />
                <Names title="Triggers" of={row.triggers} to={urls.trigger} none="No trigger runs one of them." />
              </div>
            );
          }}
        </Show>
      </div>
    </>
  );
}

function Names({ title, of, to, none }: {
  title: string;
  of: readonly string[];
  to: (name: string) => Href;
  none: string;
}) {
  return (
    <Card title={`${title} (${count(of.length)})`}>
      {of.length === 0 && <p class="dim">{none}</p>}
      <ul class="lines wide">
        {of.map((name) => (
          <li key={name}>
            <Link to={to(name)} class="grow">
              <Name text={name} />
            </Link>
          </li>
        ))}
      </ul>
    </Card>
  );
}
