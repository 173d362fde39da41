// The bar at the top of every page: which installation, its five numbers, the stream's state, the palette.

import { BAD_STATES } from "../execution_states.ts";
import { count, duration, instant, visible } from "../format.ts";
import { now } from "../clock.ts";
import { online } from "../api.ts";
import { Link } from "../parts/link.tsx";
import { Mark, Name } from "../parts/small.tsx";
import { palette } from "../parts/palette.tsx";
import { me } from "../session.ts";
import { bar, following, live, liveAt, toggleFollowing } from "../stream.ts";
import { type Href, urls } from "../urls.ts";
import { navOpen } from "./sidebar.tsx";

const COLORS = ["ok", "run", "bad", "warn", "hold", "off", "accent"];
const LATE = 10;

export function TopBar() {
  const numbers = bar.value;
  const name = numbers?.name ?? me.value?.installation.name ?? "";
  const color = numbers?.color ?? me.value?.installation.color ?? "accent";
  return (
    <header class="top-bar">
      <button
        type="button"
        class="nav-button"
        aria-label="Navigation"
        aria-expanded={navOpen.value}
        onClick={() => (navOpen.value = !navOpen.value)}
      >
        ☰
      </button>
      <Link
        to={urls.overview()}
        class="brand"
        aria-label={name && name !== "functory" ? `functory ${name}` : "functory"}
      >
        <span class={`swatch color-${COLORS.includes(color) ? color : "accent"}`} aria-hidden="true" />
        <span class="brand-name">functory</span>
        {name && name !== "functory" && (
          <span class="installation">
            <Name text={name} />
          </span>
        )}
      </Link>
      <Halted />
      <span class="spacer" />
      {numbers && (
        <nav class="numbers" aria-label="Now">
          <Number
            to={urls.executions({ state: BAD_STATES, since: "1h" })}
            value={count(numbers.failed_1h)}
            what="failed/h"
            tone={numbers.failed_1h > 0 ? "bad" : "off"}
          />
          <Number to={urls.executions({ state: ["running"] })} value={count(numbers.running)} what="running" />
          <Number to={urls.executions({ state: ["queued"] })} value={count(numbers.queued)} what="queued" />
          {numbers.router_lag_seconds !== null && (
            <Number
              to={urls.health()}
              value={duration(numbers.router_lag_seconds)}
              what="router"
              tone={numbers.router_lag_seconds > LATE ? "warn" : "off"}
            />
          )}
        </nav>
      )}
      <Live />
      <button type="button" class="find-button" onClick={() => (palette.value = "everything")}>
        <Mark name="find" />
        <span>Find</span> <kbd aria-hidden="true">Ctrl K</kbd>
      </button>
      {me.value && (
        <Link
          to={urls.me()}
          class="me-link"
          title={`${me.value.name}, ${me.value.role}`}
          aria-label={`Me: ${me.value.name}`}
        >
          <Mark name="person" />
        </Link>
      )}
    </header>
  );
}

function Number({ to, value, what, tone }: { to: Href; value: string; what: string; tone?: string }) {
  return (
    <Link to={to} class={`number ${tone ? `tone-${tone}` : ""}`}>
      <b>{value}</b> {what}
    </Link>
  );
}

function Live() {
  const late = now.value - liveAt.value > LATE * 1000;
  const state = !following.value ? "paused" : live.value ? "live" : late ? "stale" : "connecting";
  const text =
    state === "paused"
      ? "paused"
      : state === "stale"
        ? `as of ${instant(new Date(liveAt.value).toISOString()).slice(11)}`
        : state === "live"
          ? "live"
          : "connecting";
  return (
    <button
      type="button"
      class={`live live-${state}`}
      title="Live updates (l)"
      aria-pressed={following.value}
      onClick={() => toggleFollowing()}
    >
      <span class="dot" aria-hidden="true" />
      <span class="live-text">{text}</span>
    </button>
  );
}

/** The kill switch, when it is thrown. In the bar, because the page below must not move when it comes. */
function Halted() {
  const halted = bar.value?.halted;
  if (!halted) return null;
  return (
    <Link to={urls.health()} class="halted" title={halted.note ? visible(halted.note) : undefined}>
      <Mark name="paused" />
      <span role="alert">
        Halted
        <span class="halted-why">
          {" by "}
          <Name text={halted.by} /> since {instant(halted.at)}
          {halted.note && (
            <>
              : “<Name text={halted.note} />”
            </>
          )}
        </span>
      </span>
    </Link>
  );
}

/** A lost connection. */
export function Banners() {
  if (online.value) return null;
  return (
    <div class="banner warn" role="alert">
      <Mark name="warning" />
      <span>The server cannot be reached. You see what was loaded; actions wait until it answers.</span>
    </div>
  );
}
