// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// decided and changed are what of a plan its hash covers. Contents are bytes,
// as JSON bends a text that is no UTF-8.
type (
	decided struct {
		Purpose Purpose
		Action  Action
		Desired []byte
	}
	changed struct {
		Name          string
		Type          Type
		Before, After [][]byte
	}
)

// Hash is the same for two plans that decide and write the same, whenever and
// from wherever the zone was read.
func (p Plan) Hash() string {
	content := struct {
		Domain  string
		Decided []decided
		Changed []changed
	}{Domain: referred(p.Domain)}
	for _, i := range p.Items {
		content.Decided = append(content.Decided, decided{i.Purpose, i.Action, []byte(i.Desired)})
	}
	for _, c := range p.Changes {
		content.Changed = append(content.Changed, changed{
			referred(c.After.Name), c.After.Type, inOrder(c.Before.Values), inOrder(c.After.Values),
		})
	}
	encoded, _ := json.Marshal(content) // nothing in it can fail
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

func inOrder(values []string) [][]byte {
	var out [][]byte
	for _, v := range slices.Sorted(slices.Values(values)) {
		out = append(out, []byte(v))
	}
	return out
}
