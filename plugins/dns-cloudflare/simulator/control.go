// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"net/http"
	"slices"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// controls returns the handler of the control calls. They do what an owner does in Cloudflare's
// dashboard:
//
//	PUT /_control/zones/{name}            {"status": "active"}: creates a zone or sets its status
//	GET /_control/zones/{name}/records    its records in the format of the API
//	PUT /_control/zones/{name}/records    [record]: replaces all records
//	PUT /_control/token                   {"status": "disabled"}: sets the status of all tokens
//	POST /_control/credentials            {"customer": "word"}: creates a token for the customer
//
// In a sandbox, the first of these calls creates no zone, because only the sandbox creates zones.
func (sim *simulator) controls() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /_control/zones/{name}", func(w http.ResponseWriter, r *http.Request) {
		body := struct {
			Status string `json:"status"`
		}{"active"}
		if err := simulate.ReadBody(r, &body); err != nil {
			simulate.WriteError(w, http.StatusBadRequest, err.Error())
			return
		}
		name := r.PathValue("name")
		if sim.sandbox != nil && !sim.syncAndRequireZone(w, r, name) {
			return
		}
		sim.changeState(w, func(s *state) { s.zone(name).Status = body.Status })
	})
	mux.HandleFunc("GET /_control/zones/{name}/records", func(w http.ResponseWriter, r *http.Request) {
		if !sim.syncOrFail(w, r, r.PathValue("name")) {
			return
		}
		var list []record
		sim.file.View(func(s *state) {
			if z := s.Zones[r.PathValue("name")]; z != nil {
				list = slices.Clone(z.Records)
			}
		})
		simulate.WriteJSON(w, http.StatusOK, append([]record{}, list...))
	})
	mux.HandleFunc("PUT /_control/zones/{name}/records", func(w http.ResponseWriter, r *http.Request) {
		var list []record
		if err := simulate.ReadBody(r, &list); err != nil {
			simulate.WriteError(w, http.StatusBadRequest, err.Error())
			return
		}
		sim.answerControlCall(w, sim.edit(r.Context(), r.PathValue("name"), func(t *transaction) error {
			for i := range list {
				if list[i].ID == "" {
					list[i].ID = newRecordID(&t.serial)
				}
			}
			t.records = list
			return nil
		}))
	})
	mux.HandleFunc("PUT /_control/token", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Status string `json:"status"`
		}
		if err := simulate.ReadBody(r, &body); err != nil {
			simulate.WriteError(w, http.StatusBadRequest, err.Error())
			return
		}
		if !slices.Contains([]string{"active", "disabled", "expired"}, body.Status) {
			simulate.WriteError(w, http.StatusBadRequest, "status must be active, disabled or expired")
			return
		}
		sim.changeState(w, func(s *state) { s.TokenStatus = body.Status })
	})
	mux.HandleFunc("POST /_control/credentials", sim.createToken)
	return simulate.ControlCalls(mux, nil)
}

// syncAndRequireZone synchronizes a zone with the sandbox. If that fails, or if the zone does not
// exist, it answers with an error and returns false.
func (sim *simulator) syncAndRequireZone(w http.ResponseWriter, r *http.Request, name string) bool {
	if !sim.syncOrFail(w, r, name) {
		return false
	}
	known := false
	sim.file.View(func(s *state) { known = s.Zones[name] != nil })
	if !known {
		simulate.WriteError(w, http.StatusNotFound, "no such zone")
	}
	return known
}

func (sim *simulator) changeState(w http.ResponseWriter, fn func(*state)) {
	sim.answerControlCall(w, sim.file.Do(fn))
}

func (sim *simulator) answerControlCall(w http.ResponseWriter, err error) {
	var refused refusal
	switch {
	case errors.As(err, &refused) && refused == errNoZone:
		simulate.WriteError(w, http.StatusNotFound, "no such zone")
	case errors.As(err, &refused):
		simulate.WriteError(w, http.StatusBadRequest, refused.text)
	case err != nil:
		simulate.WriteError(w, http.StatusInternalServerError, err.Error())
	default:
		simulate.WriteJSON(w, http.StatusOK, struct{}{})
	}
}
