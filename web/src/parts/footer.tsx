import { now, span } from "../format/times";
import { hasToken, lastRead, request } from "../rest/client";
import { CLUSTER, isInCluster } from "../rest/membership";
import { base } from "../rest/partitions";
import { ThemeSwitch } from "./theme";

/** Links to the REST documents of the page. */
export function Footer() {
  const of = base.value ?? "/ws/v1/partition/default";
  const documents: [string, string][] = [
    ["partitions", "/ws/v1/partitions"],
    ["queues", `${of}/queues`],
    ["nodes", `${of}/nodes?limit=100`],
    ["applications", `${of}/applications/active?limit=100`],
    ["placement rules", `${of}/placementrules`],
    ["users", `${of}/usage/users`],
    ["configuration", "/ws/v1/config"],
    ["metrics", "/ws/v1/metrics"],
    ["health", "/healthz"],
    ...(isInCluster.value ? [["cluster", CLUSTER] as [string, string]] : []),
  ];
  return (
    <footer>
      <p onClick={openWithToken}>
        Read it yourself:{" "}
        {documents.map(([name, href], at) => (
          <span key={name}>
            {at > 0 && " · "}
            <a href={href}>{name}</a>
          </span>
        ))}
      </p>
      {lastRead.value && (
        <p id="age">
          Step {Number(lastRead.value.step).toLocaleString("en")} of the scheduler, read {span(now.value - lastRead.value.at)} ago
        </p>
      )}
      <p>
        <ThemeSwitch />
      </p>
      <p>
        <a href="/assets/licenses.md">Licences</a> of what this page is made of
      </p>
    </footer>
  );
}

/** Opens the link with the token, which a plain link does not send. */
async function openWithToken(event: MouseEvent): Promise<void> {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (!link || !hasToken()) return;
  event.preventDefault();
  const tab = open();
  const document = await request(link.href).then(
    (response) => response.blob(),
    (error: Error) => new Blob([error.message], { type: "text/plain" }),
  );
  if (tab) tab.location.href = URL.createObjectURL(document);
}
