// A value that several parts of the page look at.

import { useEffect, useState } from "preact/hooks";

export interface Store<T> {
  get(): T;
  set(value: T): void;
  watch(heard: (value: T) => void): () => void;
}

export function store<T>(first: T): Store<T> {
  let now = first;
  const heard = new Set<(value: T) => void>();
  return {
    get: () => now,
    set(value) {
      if (Object.is(value, now)) return;
      now = value;
      for (const one of [...heard]) one(value);
    },
    watch(one) {
      heard.add(one);
      return () => heard.delete(one);
    },
  };
}

/** The value, and a new drawing whenever it is another. */
export function useStore<T>(from: Store<T>): T {
  const [value, setValue] = useState(from.get());
  useEffect(() => {
    setValue(() => from.get());
    return from.watch((next) => setValue(() => next));
  }, [from]);
  return value;
}
