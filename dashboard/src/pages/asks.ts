// What pages ask the API first, so that it is asked before it is known who looks at them (routes.ts).

import { route } from "../api.ts";
import { firstPage } from "../lists.ts";
import { place } from "../router.ts";
import type { Route } from "../routes.ts";

type Asks = NonNullable<Route["asks"]>;

/** The page of one thing: the thing, and its parts that the page shows. */
export const asksOne =
  (kind: string, ...parts: readonly string[]): Asks =>
  (params) => {
    const id = Object.values(params)[0] as string;
    return [[route(kind, id)], ...parts.map((part) => [route(kind, id, part)] as const)];
  };

/** A list without filters. */
export const asksList =
  (path: string): Asks =>
  () => (place.value.url === path ? [firstPage(path)] : []);
