// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"net/http"
	"time"
)

// linkTime is how long a link works. SalesBlink does not say.
const linkTime = 10 * time.Minute

// startOAuth answers with a link, which is all that SalesBlink tells of a
// sign-in.
func (s *salesblink) startOAuth(w http.ResponseWriter, r *http.Request, who customer) {
	in, ok := who.in(w, r)
	if !ok {
		return
	}
	to := ""
	err := s.file.Do(func(all *state) {
		to = cmp.Or(all.Behaviour.LinkTo, s.signIns.Start(all, all.nextID(), in, linkTime))
	})
	if err != nil {
		refuse(w, http.StatusInternalServerError, "Internal error")
		return
	}
	answer(w, map[string]string{"auth_url": to})
}
