// SPDX-License-Identifier: Apache-2.0

package simulator

import (
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
		c.change(w, func(s *state) {
			name := r.PathValue("name")
			if s.Zones[name] == nil {
				s.Serial++
				s.Zones[name] = &zone{ID: fmt.Sprintf("%032x", 0xc0de0000+s.Serial), Name: name}
			}
			s.Zones[name].Status = in.Status
		})
	})
	mux.HandleFunc("GET /_control/zones/{name}/records", func(w http.ResponseWriter, r *http.Request) {
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
		c.change(w, func(s *state) {
			z := s.Zones[r.PathValue("name")]
			if z == nil {
				return
			}
			for i := range list {
				if list[i].ID == "" {
					s.Serial++
					list[i].ID = fmt.Sprintf("%032x", 0xbeef0000+s.Serial)
				}
			}
			z.Records = list
		})
	})
	return simulate.Calls(mux, nil)
}

func (c *cloudflare) change(w http.ResponseWriter, fn func(*state)) {
	if err := c.file.Do(fn); err != nil {
		simulate.Refuse(w, http.StatusInternalServerError, "the state cannot be saved")
		return
	}
	simulate.Reply(w, http.StatusOK, struct{}{})
}
