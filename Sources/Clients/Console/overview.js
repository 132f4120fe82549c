// The overview: what the hub counts, every two seconds while somebody looks.
import { ask, metrics } from './access.js';
import { h, say } from './dom.js';
import { Hubs } from './hubs.js';
import { Reading, rate } from './metrics.js';
import { Plot, bytes, count, span, time } from './plots.js';
import { isInUse, table } from './tables.js';

export const INTERVAL = 2000;

export class Overview {
  #before = null;

  constructor(plots, apps, process, hubs) {
    Object.assign(this, { apps, process, hubs: hubs ? new Hubs(hubs) : null });
    this.plots = {
      connections: new Plot('Connections', count),
      events: new Plot('Events of users each second', count, { second: 'read / delivered' }),
      channels: new Plot('Events of channels each second', count, { second: 'sent / delivered' }),
      latency: new Plot('From commit to socket', time, { second: 'half / 99 of 100' }),
      actions: new Plot('Actions each second', count),
      messages: new Plot('Messages of clients each second', count),
      queued: new Plot('Waiting for sockets', bytes),
      memory: new Plot('Memory', bytes),
      cores: new Plot('Processor', (value) => `${(100 * value).toFixed(1)} %`),
    };
    plots.append(...Object.values(this.plots).map(({ element }) => element));
    say(apps, '');
  }

  async look() {
    const [text, latency] = await Promise.all([metrics(), ask('latency'), this.hubs?.look()]);
    const now = new Reading(text);
    const before = this.#before;
    this.#before = now;
    const plots = this.plots;
    const each = (name, wanted) => rate(before, now, `carillon_${name}`, wanted);
    plots.connections.add(now.sum('carillon_connections'));
    plots.events.add(each('feed_events_total'), each('events_delivered_total') ?? (before ? 0 : null));
    plots.channels.add(each('channel_events_total'), each('channel_events_delivered_total'));
    plots.latency.add(...[latency.half, latency.most].map((value) => (value === null ? null : value / 1e6)));
    plots.actions.add(each('actions_total'));
    plots.messages.add(each('messages_received_total'));
    plots.queued.add(now.sum('carillon_send_queues_bytes'));
    plots.memory.add(now.sum('process_resident_memory_bytes'));
    plots.cores.add(rate(before, now, 'process_cpu_seconds_total'));
    const [started, used, most] = ['start_time_seconds', 'open_fds', 'max_fds'].map((name) => now.sum(`process_${name}`));
    say(this.process, `Up for ${span(now.at / 1000 - started)}. ${count(used)} of ${count(most)} descriptors are in use.`);
    if (!isInUse(this.apps)) this.#showApps(now, before);
  }

  #showApps(now, before) {
    const rows = now.values('carillon_app_connections', 'app').map((app) => [
      h('code', {}, app),
      ...['connections', 'subscriptions', 'channels'].map((name) => count(now.sum(`carillon_app_${name}`, { app }) ?? 0)),
      ...['messages_received', 'channel_events', 'channel_events_delivered', 'api_requests'].map((name) => {
        const value = rate(before, now, `carillon_app_${name}_total`, { app });
        return value === null ? '–' : count(value);
      }),
    ]);
    const counts = ['#Connections', '#Subscriptions', '#Channels', '#Messages/s', '#Events/s', '#Deliveries/s', '#Calls/s'];
    table(this.apps, ['App', ...counts], rows, 'This hub serves no app.');
  }
}
