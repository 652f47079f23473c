// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// decided and changed are the parts of a plan that its hash covers. Contents are bytes, because
// JSON alters a text that is not UTF-8.
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

// Hash returns a SHA-256 hash, in hex, of what the plan decides and writes. It does not depend on
// when and from which servers the zone was read.
func (p Plan) Hash() string {
	content := struct {
		Domain  string
		Decided []decided
		Changed []changed
	}{Domain: normalName(p.Domain)}
	for _, i := range p.Items {
		content.Decided = append(content.Decided, decided{i.Purpose, i.Action, []byte(i.Desired)})
	}
	for _, c := range p.Changes {
		content.Changed = append(content.Changed, changed{
			normalName(c.After.Name), c.After.Type, inOrder(c.Before.Values), inOrder(c.After.Values),
		})
	}
	encoded, _ := json.Marshal(content) // this type always encodes
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
