// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// controls are the calls of the owner at Cloudflare's dashboard:
//
//	PUT /_control/zones/{name}            {"status": "active"}: a zone, made or moved
//	GET /_control/zones/{name}/records    its records, as the API shows them
//	PUT /_control/zones/{name}/records    [record]: exactly these, in the API's form
//	PUT /_control/token                   {"status": "disabled"}: all tokens, as verify tells
//	POST /_control/credentials            {"customer": "word"}: that customer's token
//
// In a sandbox its own control calls make the zones.
func (c *cloudflare) controls() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /_control/zones/{name}", func(w http.ResponseWriter, r *http.Request) {
		in := struct {
			Status string `json:"status"`
		}{"active"}
		if err := simulate.Read(r, &in); err != nil {
			simulate.Refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		name := r.PathValue("name")
		if c.world != nil && !c.inWorld(w, r, name) {
			return
		}
		c.change(w, func(s *state) { s.zone(name).Status = in.Status })
	})
	mux.HandleFunc("GET /_control/zones/{name}/records", func(w http.ResponseWriter, r *http.Request) {
		if !c.met(w, r, r.PathValue("name")) {
			return
		}
		var all []record
		c.file.View(func(s *state) {
			if z := s.Zones[r.PathValue("name")]; z != nil {
				all = slices.Clone(z.Records)
			}
		})
		simulate.Reply(w, http.StatusOK, append([]record{}, all...))
	})
	mux.HandleFunc("PUT /_control/zones/{name}/records", func(w http.ResponseWriter, r *http.Request) {
		var list []record
		if err := simulate.Read(r, &list); err != nil {
			simulate.Refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		c.done(w, c.edit(r.Context(), r.PathValue("name"), func(t *transaction) error {
			for i := range list {
				if list[i].ID == "" {
					t.serial++
					list[i].ID = fmt.Sprintf("%032x", 0xbeef0000+t.serial)
				}
			}
			t.records = list
			return nil
		}))
	})
	mux.HandleFunc("PUT /_control/token", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Status string `json:"status"`
		}
		if err := simulate.Read(r, &in); err != nil {
			simulate.Refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		if !slices.Contains([]string{"active", "disabled", "expired"}, in.Status) {
			simulate.Refuse(w, http.StatusBadRequest, "status is active, disabled or expired")
			return
		}
		c.change(w, func(s *state) { s.Token = in.Status })
	})
	mux.HandleFunc("POST /_control/credentials", c.giveToken)
	return simulate.Calls(mux, nil)
}

// inWorld meets a zone, which a sandbox makes by a call of its own.
func (c *cloudflare) inWorld(w http.ResponseWriter, r *http.Request, name string) bool {
	if !c.met(w, r, name) {
		return false
	}
	known := false
	c.file.View(func(s *state) { known = s.Zones[name] != nil })
	if !known {
		simulate.Refuse(w, http.StatusNotFound, "no such zone")
	}
	return known
}

func (c *cloudflare) change(w http.ResponseWriter, fn func(*state)) { c.done(w, c.file.Do(fn)) }

func (c *cloudflare) done(w http.ResponseWriter, err error) {
	var bad refusal
	switch {
	case errors.As(err, &bad) && bad == errNoZone:
		simulate.Refuse(w, http.StatusNotFound, "no such zone")
	case errors.As(err, &bad):
		simulate.Refuse(w, http.StatusBadRequest, bad.text)
	case err != nil:
		simulate.Refuse(w, http.StatusInternalServerError, err.Error())
	default:
		simulate.Reply(w, http.StatusOK, struct{}{})
	}
}
