// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

// replicaEvents is the number of events that are written one after the other. If an event does not
// wake the waiting request, the request waits for 30 s. If that happens for half of the events, the
// test takes longer than waitTimeout and fails.
const replicaEvents = 30

// TestReplicasTellEachOther writes events at two servers on one PostgreSQL database, with Redis and
// without. A request that waits at the other server gets each event, and each of two webhooks gets
// each event.
func TestReplicasTellEachOther(t *testing.T) {
	t.Parallel()
	for _, withRedis := range []bool{true, false} {
		t.Run("redis "+strconv.FormatBool(withRedis), func(t *testing.T) {
			t.Parallel()
			fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
			env := append(fixture.env(t.TempDir(), testserver.Database(t)), "TENANTRY_WEBHOOKS_ALLOW_PRIVATE=true")
			if withRedis {
				env = append(env, "TENANTRY_REDIS_URL="+testserver.NewRedis(t).URL)
			}
			fixture.runCommand(env, "migrate")
			id, key := fixture.newAccount(env, "owner@example.com", "complete", 0)
			var servers [2]caller
			var receivers [2]*webhookReceiver
			var webhookPaths [2]string
			for i := range servers {
				_, c := fixture.serve(env)
				servers[i], receivers[i] = caller{client: c, id: id, key: key}, newWebhookReceiver(t)
				webhookPaths[i], _ = servers[i].addWebhook(receivers[i].url, "*")
			}
			cursor := servers[0].get("/v1/events?after=now").text("next_cursor")
			checkWakes(t, servers, cursor)
			written := servers[0].eventsAfter(cursor)
			if len(written) != replicaEvents {
				t.Errorf("the log has %d events, want %d", len(written), replicaEvents)
			}
			tries := 0
			for i, receiver := range receivers {
				receiver.waitAll(written)
				tries += checkDeliveredOnce(t, servers[i], receiver, webhookPaths[i], written)
			}
			checkTries(t, servers, tries)
		})
	}
}

// checkWakes writes events alternately at the two servers, while a request waits for each event at
// the other server.
func checkWakes(t *testing.T, servers [2]caller, cursor string) {
	t.Helper()
	type answer struct {
		page reply
		err  error
		at   time.Time
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	var delays []time.Duration
	for i := range replicaEvents {
		writer, reader := servers[i%2], servers[(i+1)%2]
		answers := make(chan answer, 1)
		go func() {
			page, err := reader.tryDo("GET", reader.ready.APIURL+"/v1/events?"+url.Values{"after": {cursor}, "wait_seconds": {"30"}}.Encode(), reader.key, nil)
			answers <- answer{page, err, time.Now()}
		}()
		writer.logKeyEvent()
		writtenAt := time.Now()
		select {
		case got := <-answers:
			if got.err != nil || got.page.status != 200 || len(got.page.objects("events")) != 1 {
				t.Fatalf("event %d: the waiting request is answered %d %s, want one event (%v)", i, got.page.status, got.page.raw, got.err)
			}
			cursor = got.page.text("next_cursor")
			delays = append(delays, max(0, got.at.Sub(writtenAt)))
		case <-ctx.Done():
			t.Fatalf("the readers have %d of %d events after %s, so their waits are not ended by events", i, replicaEvents, waitTimeout)
		}
	}
	slices.Sort(delays)
	median := delays[len(delays)/2]
	t.Logf("a reader at the other server had the event %s after the answer to its writer (median), %s at the most", median, delays[len(delays)-1])
	if soak.Enabled() && median >= time.Second {
		t.Errorf("a wait ends %s after the event (median), want less than 1 s", median)
	}
}

// checkDeliveredOnce waits until no delivery of a webhook is pending, and checks that all are
// delivered. A try may be repeated only if it timed out, as on an overloaded machine. The endpoint
// may get an event at most once for each try. checkDeliveredOnce returns the number of tries.
func checkDeliveredOnce(t *testing.T, c caller, receiver *webhookReceiver, webhookPath string, written []object) (tries int) {
	t.Helper()
	c.eventually("every delivery is stored", func() bool { return len(c.deliveries(webhookPath, "pending")) == 0 })
	delivered := c.deliveries(webhookPath, "delivered")
	if len(delivered) != len(written) {
		t.Errorf("%d of %d events are delivered, want all", len(delivered), len(written))
	}
	arrived := countMessages(receiver.received())
	for _, d := range delivered {
		id, attempts := d.text("event_id"), d.objects("attempts")
		if len(attemptsInTime(d)) != 1 || timedOut(attempts[len(attempts)-1]) || arrived[id] > len(attempts) {
			t.Errorf("the event %s arrived %d times with the tries %v, want at most one arrival for each try, and only tries that timed out before the last", id, arrived[id], attempts)
		}
		tries += len(attempts)
	}
	return tries
}

// checkTries checks, by the metrics of the servers, that they sent this number of messages
// together.
func checkTries(t *testing.T, servers [2]caller, want int) {
	t.Helper()
	var sent [2]int
	for i, c := range servers {
		for _, sample := range triesSample.FindAllSubmatch(c.do("GET", c.ready.AdminURL+"/metrics", "", nil).raw, -1) {
			tries, _ := strconv.Atoi(string(sample[2]))
			sent[i] += tries
		}
	}
	t.Logf("the servers sent %v messages", sent)
	if sent[0]+sent[1] != want {
		t.Errorf("the servers sent %v messages, want %d", sent, want)
	}
}
