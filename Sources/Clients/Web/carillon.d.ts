/** A value that is read with `value` or `get()`, and watched with `subscribe` or `for await`. */
export declare class Signal<T> implements AsyncIterable<T> {
  readonly value: T;
  readonly get: () => T;
  /** Calls `listener` with each new value; returns what ends that. */
  subscribe(listener: (value: T) => void): () => void;
  /** The first value that fits, now or later. */
  when(fits: (value: T) => boolean): Promise<T>;
  readonly isWatched: boolean;
  [Symbol.asyncIterator](): AsyncGenerator<T>;
}

export declare class CarillonError extends Error {
  /**
   * Such as `storage_full`, `unsent_actions`, `too_large`, `no_conflict`, `unauthorized`, `wrong_user`, `not_started`,
   * `storage_unavailable`, `newer_store`, `closed`.
   */
  readonly code: string;
  /** Of `unsent_actions`. */
  readonly actions?: QueuedAction[];
}

export type DoseStatus = 'scheduled' | 'taken' | 'missed' | 'made_up' | 'skipped' | 'cancelled';

export interface Dose {
  id: string;
  userId: string;
  scheduleId: string | null;
  productId: string | null;
  productName: string | null;
  strength: string | null;
  form: string | null;
  dose: string | null;
  asNeeded: boolean;
  status: DoseStatus;
  takenAt: string | null;
  takenAtLocal: string | null;
  reason: string | null;
  note: string | null;
  hasNote: boolean;
  rev: number;
  scheduledAt: string;
  timeLocal: string;
  timezone: string;
  localDate: string;
  windowStart: string | null;
  windowEnd: string;
  changedBy: { actor: 'user' | 'system' | 'backend' | null; deviceId: string | null };
  /** An action of this device on it is not confirmed yet. */
  isPending: boolean;
  /** A conflict about it waits for the person. */
  hasConflict: boolean;
}

export interface DaySummary {
  date: string;
  scheduledCount: number;
  takenCount: number;
  missedCount: number;
  madeUpCount: number;
  skippedCount: number;
  pendingCount: number;
  adherencePct: number | null;
  onTimePct: number | null;
}

export interface Stats {
  currentStreakDays: number;
  bestStreakDays: number;
  avg30DaysPct: number | null;
  doses30Pct: number | null;
}

export interface Today {
  date: string;
  /** Those that fall on today where the user is, and those that are due now, whatever their date. */
  occurrences: Dose[];
  /** Of the date, as in the month. */
  summary: DaySummary;
  stats: Stats | null;
}

export interface Reminder {
  id: string;
  clientId: string | null;
  productId: string | null;
  stackId: string | null;
  appliesTo: 'item' | 'stack';
  preset: string | null;
  label: string | null;
  time: string;
  timezone: string;
  tzMode: 'follow' | 'fixed';
  repeat: 'daily' | 'weekdays' | 'custom';
  repeatOn: number[] | null;
  snoozeMinutes: number | null;
  delivery: 'local' | 'push' | 'both';
  enabled: boolean;
  /** Its medicine was stopped, or its schedule is paused: it has no occurrences. */
  silent?: boolean;
  rev: number;
  nextOccurrences: string[];
  /** The next times, ten where the rule has no end, each with the id by which it is snoozed. */
  upcoming: { id: string; ruleId: string; start: string; status: string }[];
  isPending: boolean;
  hasConflict: boolean;
}

export interface ReminderOccurrence {
  id?: string;
  ruleId: string;
  date: string;
  start: string;
  movedTo: string | null;
  /** Nobody moved it: it stays where it was when the zone changed. */
  kept?: boolean;
  status: 'scheduled' | 'sent' | 'missed' | 'cancelled';
  snoozedUntil: string | null;
  snoozeCount: number;
  isPending: boolean;
}

export interface Schedule {
  id: string;
  productId: string | null;
  stackId: string | null;
  time: string;
  repeat: 'daily' | 'weekdays' | 'custom' | 'as_needed';
  repeatOn: number[] | null;
  dose: string | null;
  enabled: boolean;
  rev: number;
}

export interface Medication {
  id: string;
  name: string;
  strength: string | null;
  form: string | null;
  frequency: string | null;
  isCatalogue: boolean;
  rev: number;
  schedules: Schedule[];
  isPending: boolean;
  hasConflict: boolean;
}

export interface Stack {
  id: string;
  name: string;
  items: { productId: string; position: number; dose: string | null }[];
  schedules: Schedule[];
  rev: number;
  isPending: boolean;
  hasConflict: boolean;
}

export interface Medications {
  items: Medication[];
  stacks: Stack[];
  settings: { timezone: string; isPending: boolean; [name: string]: unknown };
}

/** An action as the app sees it. */
export interface QueuedAction {
  key: string;
  type: string;
  payload: Record<string, unknown>;
  state: 'queued' | 'sent' | 'parked' | 'failed' | 'done';
  n: number | null;
  retries: number;
  clientTime: string;
  code: string | null;
  message: string | null;
  path: string | null;
  /**
   * What the hub said of the conflict, or of the first of several: `{entity, server, base, local, fields, options, merged}`.
   */
  conflict: Record<string, any> | null;
  /** Of an action on several doses: those in conflict, or those that the hub refuses. */
  items: Record<string, any>[] | null;
  /** The key of the conflict that this action waits behind. */
  behind: string | null;
}

export interface ChannelAuthorization {
  auth: string;
  /** Of a presence channel: who the user is there. */
  channel_data?: string;
}

export interface Options {
  /** The hub's address, such as `https://hub.example.com`. */
  hub: string;
  /** The app's key; not needed with `pusher`. */
  key?: string;
  user: string;
  /** A fresh token of the user, from the app's backend. */
  token: () => string | Promise<string>;
  /** The app's own pusher-js, used in place of a connection of the client's own. */
  pusher?: unknown;
  /**
   * For private and presence channels of `subscribe`: what the app's backend signs, as its answer to pusher-js. Over the
   * app's own pusher-js not needed: that has its own.
   */
  authorize?: (channel: string, socketId: string) =>
    ChannelAuthorization | Promise<ChannelAuthorization>;
  /** A name, where one browser plays several devices, as in a demonstration. Each has a store of its own. */
  device?: string;
  topics?: ('adherence' | 'reminders' | 'medications')[];
  /** The zone before the hub has said the user's. By default the browser's. */
  zone?: string;
  /** Bounds of the waits between two connections: by default 1,000 and 30,000 ms. */
  backoff?: { baseMs?: number; capMs?: number };
}

export type ConnectionState =
  'offline' | 'connecting' | 'signing_in' | 'connected' | 'refused' | 'closed';

export interface StorageState {
  state: 'opening' | 'ok' | 'full' | 'wiped' | 'replaced' | 'unavailable' | 'lost';
  /** After `wiped`: how many actions were still in memory, and are in the queue again. */
  kept?: number;
  isPersisted?: boolean;
}

export declare class Carillon {
  constructor(options: Options);
  /** Opens the store, shows what is in it, and connects. */
  start(): Promise<this>;
  /** Ends this tab's part; the store stays. */
  close(): Promise<void>;
  /** Throws `unsent_actions` while actions are not confirmed, unless `unsent` says what becomes of them. */
  signOut(options?: { unsent?: 'ask' | 'discard' | 'keep' }): Promise<void>;
  /** Deletes the store, also one that cannot be opened, with all that no hub has confirmed. Ends the client. */
  removeStore(): Promise<void>;

  /** `undefined` until the first snapshot is here. */
  today(): Signal<Today | undefined>;
  month(month: string): Signal<DaySummary[] | undefined>;
  reminders(): Signal<{ items: Reminder[]; occurrences: ReminderOccurrence[] } | undefined>;
  medications(): Signal<Medications | undefined>;

  /** Times may be a `Date`. */
  act(type: string, payload?: Record<string, unknown>, options?: { base?: unknown }):
    Promise<{ key: string; id?: string; prediction: { status: string; code?: string; path?: string } | null }>;
  undo(key: string): Promise<{ key: string | null }>;
  resolve(key: string, choice: 'keep_local' | 'accept_server' | 'merge', merged?: Record<string, unknown>):
    Promise<{ key: string | null }>;
  /** A refused action has been seen. */
  dismiss(key: string): Promise<void>;
  /** Answers `zoneChanged`. */
  setZone(choice: 'keep' | 'convert'): Promise<void>;
  /** Any channel of the hub; private and presence ones need `authorize`. Returns what ends it. */
  subscribe(channel: string, listener: (event: string, data: any) => void): () => void;

  readonly user: string;
  readonly zone: string;
  readonly deviceId: string;
  readonly connection: Signal<ConnectionState>;
  readonly conflicts: Signal<QueuedAction[]>;
  /** What the hub refuses for good, until `dismiss`. */
  readonly failures: Signal<QueuedAction[]>;
  readonly queueLength: Signal<number>;
  readonly lastSyncAt: Signal<string | null>;
  readonly problem: Signal<{ code?: string; message: string } | null>;
  readonly storage: Signal<StorageState>;
  readonly zoneChanged: Signal<{ from: string; to: string } | null>;
  readonly isLeader: Signal<boolean>;
}
