// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"golang.org/x/net/idna"
)

// maxBatch is the maximum number of operations in a batch on Cloudflare's Free plan.
const maxBatch = 200

type zone struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Status  string   `json:"status"`
	Records []record `json:"records"`
	// Version and NameServers are those of the zone in the sandbox.
	Version     uint32   `json:"version,omitempty"`
	NameServers []string `json:"name_servers,omitempty"`
}

type record struct {
	ID       string    `json:"id,omitempty"`
	Type     string    `json:"type,omitempty"`
	Name     string    `json:"name,omitempty"`
	Content  string    `json:"content,omitempty"`
	TTL      int       `json:"ttl,omitempty"`
	Priority *int      `json:"priority,omitempty"`
	Proxied  bool      `json:"proxied"`
	Comment  string    `json:"comment,omitempty"`
	Settings *settings `json:"settings,omitempty"`
}

type settings struct {
	FlattenCNAME bool `json:"flatten_cname"`
}

// refusal is an error of the API with its code and message.
type refusal struct {
	code int
	text string
}

func (r refusal) Error() string { return fmt.Sprintf("%d: %s", r.code, r.text) }

func (sim *simulator) listZones(w http.ResponseWriter, r *http.Request) {
	if !sim.syncOrFail(w, r, r.URL.Query().Get("name")) {
		return
	}
	var docs []map[string]any
	sim.file.View(func(s *state) {
		for _, name := range slices.Sorted(maps.Keys(s.Zones)) {
			if filter := r.URL.Query().Get("name"); filter == "" || filter == name {
				docs = append(docs, s.Zones[name].apiDoc())
			}
		}
	})
	onPage, info, ok := page(r, docs, 20, 50)
	if !ok {
		refuse(w, http.StatusBadRequest, 1004, "Invalid paging")
		return
	}
	answer(w, onPage, info)
}

// syncOrFail is syncFromSandbox for a request. If it fails, it answers the request and returns
// false.
func (sim *simulator) syncOrFail(w http.ResponseWriter, r *http.Request, name string) bool {
	sim.editMu.Lock()
	defer sim.editMu.Unlock()
	if err := sim.syncFromSandbox(r.Context(), name); err != nil {
		sim.writeError(w, err)
		return false
	}
	return true
}

// writeError answers with the refusal in err. It logs any other error and answers with 500.
func (sim *simulator) writeError(w http.ResponseWriter, err error) {
	var refused refusal
	switch {
	case !errors.As(err, &refused):
		if sim.kit.Log != nil {
			_, _ = fmt.Fprintf(sim.kit.Log, "simulator cloudflare: %v\n", err)
		}
		refuse(w, http.StatusInternalServerError, 10013, "Internal error")
	case refused == errNoZone:
		refuse(w, http.StatusNotFound, refused.code, refused.text)
	default:
		refuse(w, http.StatusBadRequest, refused.code, refused.text)
	}
}

// apiDoc returns the zone in the format of the API.
func (z *zone) apiDoc() map[string]any {
	servers := z.NameServers
	if len(servers) == 0 {
		servers = []string{"ada.ns.cloudflare.com", "bob.ns.cloudflare.com"}
	}
	return map[string]any{
		"id": z.ID, "name": unicodeName(z.Name), "status": z.Status, "paused": false, "type": "full",
		"name_servers": servers,
		"account":      map[string]string{"id": "00000000000000000000000000000002", "name": "Simulated"},
	}
}

// unicodeName returns the name of a zone as the API returns it. The API returns the names of
// records with A-labels.
func unicodeName(name string) string {
	if unicode, err := idna.ToUnicode(name); err == nil {
		return unicode
	}
	return name
}

func (s *state) byID(id string) *zone {
	for _, z := range s.Zones {
		if z.ID == id {
			return z
		}
	}
	return nil
}

// zoneName returns the name of the zone with this id. ok is false for an unknown id.
func (sim *simulator) zoneName(id string) (name string, ok bool) {
	sim.file.View(func(s *state) {
		if z := s.byID(id); z != nil {
			name, ok = z.Name, true
		}
	})
	return name, ok
}

func (sim *simulator) listRecords(w http.ResponseWriter, r *http.Request) {
	var list []record
	found := false
	if name, ok := sim.zoneName(r.PathValue("zone")); ok && !sim.syncOrFail(w, r, name) {
		return
	}
	sim.file.View(func(s *state) {
		if z := s.byID(r.PathValue("zone")); z != nil {
			found, list = true, slices.Clone(z.Records)
		}
	})
	if !found {
		sim.writeError(w, errNoZone)
		return
	}
	onPage, info, ok := page(r, list, 100, 5_000_000)
	if !ok {
		refuse(w, http.StatusBadRequest, 1004, "Invalid paging")
		return
	}
	answer(w, onPage, info)
}

// batchDoc is the body of a batch request, and the result in its answer.
type batchDoc struct {
	Deletes []record `json:"deletes"`
	Patches []record `json:"patches"`
	Puts    []record `json:"puts"`
	Posts   []record `json:"posts"`
}

func (sim *simulator) batch(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // cannot fail: the body is in memory
	var request, result batchDoc
	if !decode(body, &request) || len(request.Deletes)+len(request.Patches)+len(request.Puts)+len(request.Posts) > maxBatch {
		refuse(w, http.StatusBadRequest, 9207, "Request body is invalid")
		return
	}
	name, ok := sim.zoneName(r.PathValue("zone"))
	if !ok {
		sim.writeError(w, errNoZone)
		return
	}
	if err := sim.edit(r.Context(), name, func(t *transaction) (err error) {
		result, err = t.apply(request)
		return err
	}); err != nil {
		sim.writeError(w, err)
		return
	}
	answer(w, result, nil)
}
