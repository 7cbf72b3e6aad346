// Names of objects. A long one is cut, with the whole as a title and a button that copies it.
import { type Keyed, type Names, cutName, cutQueue, nameOf } from "../format/names";
import { toApplication, toNode, toQueue } from "../routes";
import { Copy } from "./copy";
import { mostOfName } from "./screen";

interface Shown {
  name: string;
  href?: string;
  /** Title of a name that is not cut. */
  title?: string | undefined;
  class?: string;
  cut?: (name: string, most: number) => string;
}

/** A name, as a link if it has an address. */
export function Short({ name, href, title, class: look, cut = cutName }: Shown) {
  const text = cut(name, mostOfName.value);
  const isCut = text !== name;
  const whole = isCut && title ? `${name} (${title})` : isCut ? name : title;
  const shown = href === undefined ? <span title={whole}>{text}</span> : <a href={href} title={whole} class={look}>{text}</a>;
  return isCut ? <span class="cut">{shown}<Copy text={name} /></span> : shown;
}

export const ApplicationLink = ({ id }: { id: string | undefined }) => (id ? <Short name={id} href={toApplication(id)} /> : null);

export const NodeLink = ({ id }: { id: string | undefined }) => (id ? <Short name={id} href={toNode(id)} /> : null);

export const QueueLink = ({ path }: { path: string }) => <Short name={path} href={toQueue(path)} class="plain" cut={cutQueue} />;

/** Display name of an object with a key. The key is the title if it differs. */
export const Called = ({ name, of: key }: { name: string; of: string }) => (name ? <Short name={name} title={name === key ? undefined : key} /> : null);

/** Display name of a row. */
export const Name = ({ of: row }: { of: Keyed }) => <Called name={nameOf(row)} of={row.allocationKey} />;

/** Display name of a key, if it is known. */
export const NameOfKey = ({ of: key, among: names }: { of: string; among: Names }) => <Called name={names.get(key) ?? key} of={key} />;
