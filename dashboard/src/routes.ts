// The pages of the dashboard: a pattern of the address, a title and a component each.

import type { ComponentType } from "preact";
import { begin } from "./api.ts";
import type { Params, Query } from "./urls.ts";
import { match } from "./urls.ts";
import { agentRoutes } from "./pages/agents.ts";
import { buildRoutes } from "./pages/build.ts";
import { guardRoutes } from "./pages/guard.ts";
import { nowRoutes } from "./pages/now.ts";

export interface Route {
  /** `/functions/:name`; parameters go to the component. */
  readonly pattern: string;
  /** The entry of the navigation that is marked. */
  readonly nav?: string;
  readonly title: (params: Params) => string;
  /** `load` fetches the code of a page that the first load leaves out. */
  readonly page: ComponentType<any> & { readonly load?: () => void };
  /** The routes of the API that the page asks first, as it asks them. */
  readonly asks?: (params: Params) => readonly (readonly [path: string, query?: Query])[];
  /** Drawn without the frame. */
  readonly bare?: boolean;
}

export function routes(): readonly Route[] {
  return [...nowRoutes, ...buildRoutes, ...guardRoutes, ...agentRoutes];
}

/** The first route that fits, with its parameters. Patterns with fixed words go before those with parameters. */
export function routeOf(path: string): { readonly route: Route; readonly params: Params } | null {
  for (const route of routes()) {
    const params = match(route.pattern, path);
    if (params) return { route, params };
  }
  return null;
}

/** Fetches what the page of an address is made of, before it is known who looks at it. */
export function prepare(path: string): void {
  const found = routeOf(path);
  found?.route.page.load?.();
  for (const asked of found?.route.asks?.(found.params) ?? []) begin(...asked);
}
