// Whether the system prefers a dark page. Canvas content has to be redrawn on a change.
import { signal } from "@preact/signals";

const wanted = matchMedia("(prefers-color-scheme: dark)");

export const dark = signal(wanted.matches);

wanted.addEventListener("change", (event) => {
  dark.value = event.matches;
});
