// The map: what can start what, where the cycles are.

import { useMemo } from "preact/hooks";
import type { CycleStop, MapCycle } from "../api.gen.ts";
import { isPending, useData } from "../data.ts";
import { plural } from "../format.ts";
import { Graph, type GraphBox, type GraphEdge } from "../parts/graph.tsx";
import { Link, LinkButton } from "../parts/link.tsx";
import { Card, Empty, Mark, More, Name, PageHead, Show } from "../parts/small.tsx";
import { place, setQuery } from "../router.ts";
import { type Href, type Query, urlOf, urls } from "../urls.ts";

interface MapAnswer {
  readonly nodes: readonly GraphBox[];
  readonly edges: readonly GraphEdge[];
  readonly cycles: readonly MapCycle[];
  readonly truncated: boolean;
}

const DEPTHS = ["1", "2", "3", "5"];

/** The page of a box; null for one without. */
function pageOf(kind: string, name: string): Href | null {
  // An event of the map is a type, and may be about one function: `function.updated (parse)`.
  if (kind === "event") return urls.events({ type: name.split(" ")[0] ?? name });
  if (kind === "source") {
    const [of, ...rest] = name.split("/");
    return urlOf(of ?? "", rest.join("/"));
  }
  return urlOf(kind, name);
}

const boxPage = (box: GraphBox) => pageOf(box.kind, box.name);

export function MapPage() {
  const around = place.value.query.get("around");
  const depth = place.value.query.get("depth") ?? "2";
  const query: Query = around ? { around, depth } : {};
  const data = useData<MapAnswer>("/map", query, { every: 30 });
  const names = useData<MapAnswer>("/map");
  const kind = around?.split(":")[0];
  const name = around?.slice((kind?.length ?? 0) + 1);
  const to = kind && name ? pageOf(kind, name) : null;
  const suggestions = useMemo(() => names.data?.nodes.map((one) => one.id) ?? [], [names.data]);
  return (
    <>
      <PageHead
        title="Map"
        mark={<Mark name="map" />}
        waits={isPending(data)}
        actions={around && <LinkButton to={urls.map()}>Whole map</LinkButton>}
      >
        {data.data && (
          <>
            <span>{plural(data.data.nodes.length, "box", "boxes")}</span>
            <span class={data.data.cycles.length ? "tone-bad" : ""}>
              {plural(data.data.cycles.length, "cycle")}
            </span>
          </>
        )}
      </PageHead>
      <div class="filter-bar" role="search" aria-label="Part of the map">
        <input
          type="search"
          class="filter-text"
          aria-label="Around"
          placeholder="around, as function:NAME"
          list="map-names"
          value={around ?? ""}
          spellcheck={false}
          onChange={(event) => setQuery({ around: event.currentTarget.value.trim() || null })}
        />
        <datalist id="map-names">
          {suggestions.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
        {around && (
          <select
            aria-label="Steps"
            value={depth}
            onChange={(event) => setQuery({ depth: event.currentTarget.value })}
          >
            {DEPTHS.map((one) => (
              <option key={one} value={one}>
                {one === "1" ? "1 step" : `${one} steps`}
              </option>
            ))}
          </select>
        )}
        {to && <More to={to}>open {name}</More>}
        <span class="legend" aria-label="Legend">
          <span class="line-solid">certain</span>
          <span class="line-dashed">possible</span>
          <span class="line-cycle">in a cycle</span>
        </span>
      </div>
      <Show of={data}>
        {(map) =>
          map.nodes.length ? (
            <div class="map-page">
              {map.truncated && (
                <p class="notice">
                  The whole map is too large for one picture. Choose a box to see what is around it.
                </p>
              )}
              <Graph
                boxes={map.nodes}
                edges={map.edges}
                cycles={pictured(map.cycles)}
                active={around}
                label="Map"
                zoom
                hrefOf={boxPage}
              />
              <Cycles map={map} />
            </div>
          ) : (
            <Empty title={around ? "There is nothing around it." : "No functions and no triggers yet."}>
              {around ? (
                <LinkButton to={urls.map()}>Whole map</LinkButton>
              ) : (
                <LinkButton to={urls.newTrigger()}>Make a trigger</LinkButton>
              )}
            </Empty>
          )
        }
      </Show>
    </>
  );
}

function Cycles({ map }: { map: MapAnswer }) {
  const known = new Map(map.nodes.map((one) => [one.id, one]));
  if (!map.cycles.length) return null;
  return (
    <Card title="Cycles">
      <ul class="cycles">
        {map.cycles.map((cycle) => (
          <li key={cycle.nodes.join(">")}>
            {cycle.nodes.map((id, at) => {
              const box = known.get(id);
              const to = box && pageOf(box.kind, box.name);
              return (
                <span key={`${id}${at}`}>
                  {at > 0 && <span class="dim"> → </span>}
                  {to ? (
                    <Link to={to}>
                      <Name text={box.name} />
                    </Link>
                  ) : (
                    <Name text={box?.name ?? id} />
                  )}
                </span>
              );
            })}
            <p class="dim">
              Stopped <Stop of={cycle.same_subject} />.
              {cycle.same_subject.guard === "cycle" && (
                <>
                  {" "}
                  If its events are about different subjects: <Stop of={cycle.other_subjects} />.
                </>
              )}
            </p>
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** What stops a cycle, as a part of a sentence. */
function Stop({ of }: { of: CycleStop }) {
  return (
    <>
      {stopText(of)} of{" "}
      <Link to={urls.trigger(of.trigger)}>
        <Name text={of.trigger} />
      </Link>
      , after {plural(of.executions, "execution")}
    </>
  );
}

const LIMITS: Readonly<Record<CycleStop["guard"], string>> = {
  own_event: "by the guard for own events",
  cycle: "by max_revisits",
  depth: "by max_depth",
  budget: "by the budget",
  trigger_paused: "by the pause",
};

const stopText = ({ guard, limit }: CycleStop) => `${LIMITS[guard]}${limit ? ` ${limit}` : ""}`;

/** The cycles for the picture, each with a note at the line that closes it. */
const pictured = (cycles: readonly MapCycle[]) =>
  cycles.map(({ nodes, same_subject }) => ({ ids: nodes, note: `stopped ${stopText(same_subject)}` }));

/** The neighbourhood of one box, for other pages. */
export function SmallMap({ around }: { around: string }) {
  const data = useData<MapAnswer>("/map", { around, depth: 2 });
  return (
    <Card title="What can start what" more={<More to={urls.map({ around })}>map</More>}>
      <Show of={data} rows={4}>
        {(map) =>
          map.edges.length ? (
            <Graph
              boxes={map.nodes}
              edges={map.edges}
              cycles={pictured(map.cycles)}
              active={around}
              label={`What is around ${around}`}
              hrefOf={boxPage}
            />
          ) : (
            <p class="dim">Nothing starts it, and it starts nothing.</p>
          )
        }
      </Show>
    </Card>
  );
}
