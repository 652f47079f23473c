// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/tenantry/tenantry/adapters/httpapi"
)

func TestTheCommittedDocumentIsFresh(t *testing.T) {
	fresh, err := httpapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile("../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(committed, fresh.YAML) {
		t.Fatal("docs/openapi.yaml is stale: run make openapi")
	}
}
