// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

// logReplicas are two servers on one PostgreSQL database with one account. The servers are killed
// while logWriters write events and logReaders follow the log of the account.
type logReplicas struct {
	*serviceFixture
	env []string
	key string

	mu      sync.Mutex // guards servers and names
	servers [2]client
	names   map[string]bool // the names of the requested keys; true if the request was answered 200
	written atomic.Int64    // the number of keys that were created

	writersEnded atomic.Bool
}

// soakTime is how long the writers write in a soak.
const soakTime = 10 * time.Minute

const (
	logWriters, logReaders = 8, 4
	// sampleKills is the number of kills outside a soak. At least sampleWrites keys are created
	// before each kill, and five times as many in a soak.
	sampleKills, sampleWrites = 4, 60
)

// TestReplicasShareOneLog kills each of two servers with SIGKILL while clients write and read
// events. Every reader gets each event once, in the order of the log. The log has each key whose
// creation was answered, and only keys that a client requested.
func TestReplicasShareOneLog(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	replicas := &logReplicas{serviceFixture: fixture, env: fixture.env(t.TempDir(), testserver.Database(t)), names: map[string]bool{}}
	replicas.runCommand(replicas.env, "migrate")
	_, replicas.key = replicas.newAccount(replicas.env, "owner@example.com", "complete", 0)
	processes := [2]*process{}
	for i := range replicas.servers {
		processes[i], replicas.servers[i] = replicas.serve(replicas.env)
	}
	var writers, readers sync.WaitGroup
	eventsByReader := make([][]object, logReaders)
	for i := range eventsByReader {
		readers.Go(func() { eventsByReader[i] = replicas.followLog(i) })
	}
	stop := make(chan struct{})
	for i := range logWriters {
		writers.Go(func() { replicas.writeEvents(i, stop) })
	}
	kills := replicas.killAlternately(soak.Rand(t), processes)
	close(stop)
	writers.Wait()
	replicas.writersEnded.Store(true)
	readers.Wait()
	if !t.Failed() {
		replicas.checkReaders(eventsByReader)
	}
	t.Logf("%d events of %d keys after %d kills", len(eventsByReader[0]), len(replicas.names), kills)
}

// server returns the client of a server. A restarted server has a new client.
func (r *logReplicas) server(i int) client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.servers[i%2]
}

// killAlternately kills the two servers alternately, each after some writes, and starts them again.
// It returns after soakTime in a soak, and otherwise after sampleKills.
func (r *logReplicas) killAlternately(random *rand.Rand, processes [2]*process) (kills int) {
	r.t.Helper()
	end, writes := time.Now().Add(soakTime), sampleWrites
	if soak.Enabled() {
		writes *= 5
	}
	for i := 0; soak.Enabled() && time.Now().Before(end) || !soak.Enabled() && i < sampleKills; i++ {
		wantWritten := r.written.Load() + int64(writes+random.IntN(writes))
		client{t: r.t}.eventually("the writers write", func() bool { return r.written.Load() >= wantWritten })
		processes[i%2].kill()
		kills++
		restarted, restartedClient := r.serve(r.env)
		r.mu.Lock()
		processes[i%2], r.servers[i%2] = restarted, restartedClient
		r.mu.Unlock()
	}
	return kills
}

// writeEvents creates keys, and revokes half of them, until stop is closed. A request without an
// answer is not repeated.
func (r *logReplicas) writeEvents(writer int, stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-r.t.Context().Done():
			return
		default:
		}
		name, c := fmt.Sprintf("%d-%d", writer, n), r.server(writer+n)
		r.mu.Lock()
		r.names[name] = false
		r.mu.Unlock()
		created, err := c.tryDo("POST", c.ready.APIURL+"/v1/keys", r.key, object{"name": name, "scopes": []string{"events:read"}})
		if err != nil || created.status != 200 {
			continue
		}
		r.mu.Lock()
		r.names[name] = true
		r.mu.Unlock()
		r.written.Add(1)
		if n%2 == 0 {
			_, _ = c.tryDo("DELETE", c.ready.APIURL+"/v1/keys/"+created.text("id"), r.key, nil)
		}
	}
}

// followLog reads the log until the writers have ended and no event is left. Readers request pages
// of different sizes, and some wait for events. After a failed request a reader continues at the
// other server.
func (r *logReplicas) followLog(reader int) (events []object) {
	cursor := ""
	for i, deadline := reader, time.Now().Add(waitTimeout); time.Now().Before(deadline) && r.t.Context().Err() == nil; {
		writersEnded, c := r.writersEnded.Load(), r.server(i)
		query := url.Values{"limit": {strconv.Itoa(1 + 33*reader)}, "wait_seconds": {strconv.Itoa(reader % 2)}}
		if cursor != "" {
			query.Set("after", cursor)
		}
		page, err := c.tryDo("GET", c.ready.APIURL+"/v1/events?"+query.Encode(), r.key, nil)
		if err != nil || page.status != 200 {
			i++
			continue
		}
		deadline = time.Now().Add(waitTimeout)
		events, cursor = append(events, page.objects("events")...), page.text("next_cursor")
		if writersEnded && page.object["has_more"] != true && len(page.objects("events")) == 0 {
			return events
		}
		if len(page.objects("events")) == 0 {
			time.Sleep(10 * time.Millisecond) // leaves processor time to the writers; no result depends on this interval
		}
	}
	if r.t.Context().Err() == nil {
		r.t.Errorf("reader %d got no answer in %s", reader, waitTimeout)
	}
	return events
}

// checkReaders compares the events of each reader with the full log, and the full log with the
// answers to the writers.
func (r *logReplicas) checkReaders(eventsByReader [][]object) {
	r.t.Helper()
	c := r.server(0)
	fullLog := caller{client: c, key: r.key}.eventsAfter("")
	ids := func(events []object) (ids []string) {
		for _, event := range events {
			ids = append(ids, event.text("id"))
		}
		return ids
	}
	for i, events := range eventsByReader {
		if !slices.Equal(ids(events), ids(fullLog)) {
			r.t.Errorf("reader %d got %d events, want the %d events of the log in their order", i, len(events), len(fullLog))
		}
	}
	versions, created, seenIDs := map[string]float64{}, map[string]bool{}, map[string]bool{}
	for _, logged := range fullLog {
		if seenIDs[logged.text("id")] {
			r.t.Errorf("the log has %v twice", logged)
		}
		seenIDs[logged.text("id")] = true
		subject := fmt.Sprint(logged.valueAt("subject.id"))
		if versions[subject]++; logged["version"] != versions[subject] {
			r.t.Errorf("the event %v has the wrong version, want %v", logged, versions[subject])
		}
		if name := fmt.Sprint(logged.valueAt("data.name")); logged.text("type") == "key.created" && strings.Contains(name, "-") {
			if created[name] {
				r.t.Errorf("%s was created twice", name)
			}
			created[name] = true
		}
	}
	for name, answered := range r.names {
		if answered && !created[name] {
			r.t.Errorf("the creation of %s was answered and is not in the log", name)
		}
		delete(created, name)
	}
	if len(created) > 0 {
		r.t.Errorf("the log has keys that nobody requested: %v", created)
	}
}
