// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"strings"
	"time"
)

// admit authenticates a call by its bearer token.
func (s *simulator) admit(r *http.Request) (*graphCall, *graphError) {
	now := s.kit.Now()
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		return nil, errNoToken.of("")
	}
	claims, err := s.registration().verify(token)
	if err != nil {
		return nil, errBadToken.of("")
	}
	if claims["aud"] != graphAudience {
		return nil, errAudience.of("")
	}
	if !alive(claims, now) {
		return nil, errExpired.of("")
	}
	tid, _ := claims["tid"].(string)
	f := s.store.find(tid)
	if f == nil {
		return nil, errIdentity.of("")
	}
	c := &graphCall{s: s, r: r, file: f, now: now, tenant: tid}
	granted := false
	f.View(func(t *tenant) {
		granted = t.Grant.Consent == "granted" && !t.Behaviour.Deleted && !t.Behaviour.AppDisabled
		for _, role := range texts(claims["roles"]) {
			if t.Grant.has(role) {
				c.roles = append(c.roles, role)
			}
		}
	})
	if !granted {
		return nil, errIdentity.of("")
	}
	return c, nil
}

// alive checks a token's times.
func alive(claims map[string]any, now time.Time) bool {
	until, _ := claims["exp"].(float64)
	from, _ := claims["nbf"].(float64)
	return now.Unix() < int64(until) && now.Add(5*time.Minute).Unix() >= int64(from)
}

// texts reads a claim that is a list of strings.
func texts(claim any) []string {
	list, _ := claim.([]any)
	var out []string
	for _, v := range list {
		if text, ok := v.(string); ok {
			out = append(out, text)
		}
	}
	return out
}
