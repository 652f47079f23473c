// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/command"
	"github.com/tenantry/tenantry/app/settings"
)

func TestHelmChartRenders(t *testing.T) {
	t.Parallel()
	minimal, err := renderChart(t, chartFolder, minimalValues())
	if err != nil {
		t.Fatal(err)
	}
	if got := kindsOf(minimal); got != "Deployment PodDisruptionBudget Service ServiceAccount" {
		t.Errorf("the required values render %s, want the kinds Deployment, PodDisruptionBudget, Service and ServiceAccount", got)
	}
	single, err := renderChart(t, chartFolder, minimalValues(), object{"replicas": 1})
	if err != nil || strings.Contains(kindsOf(single), "PodDisruptionBudget") {
		t.Errorf("a single replica has a PodDisruptionBudget, or could not be rendered: %s (%v)", kindsOf(single), err)
	}
	complete, err := renderChart(t, chartFolder, allValues())
	if err != nil {
		t.Fatal(err)
	}
	if got := kindsOf(complete); got != "Deployment NetworkPolicy PodDisruptionBudget Service Service ServiceAccount ServiceMonitor" {
		t.Errorf("all values render %s, want also NetworkPolicy, ServiceMonitor and a second Service", got)
	}
	pod := objectOfKind(t, complete, "Deployment").member("spec.template.spec").(map[string]any)
	checkPod(t, pod)
	policy := fmt.Sprint(objectOfKind(t, complete, "NetworkPolicy").member("spec.egress"))
	for _, allowed := range []string{"map[port:6379 protocol:TCP]", "map[port:8443 protocol:TCP]", "map[port:8443 protocol:UDP]"} {
		if !strings.Contains(policy, allowed) {
			t.Errorf("the network policy does not allow %s: %s", allowed, policy)
		}
	}
	for _, list := range []string{"containers", "initContainers"} {
		for _, c := range object(pod).objects(list) {
			checkContainer(t, c)
		}
	}
}

// checkPod checks the privileges and ports of a pod. It requests the paths of its probes from a
// service, and compares its grace period with the default of drain_time.
func checkPod(t *testing.T, pod object) {
	t.Helper()
	checkMembers(t, pod, object{
		"automountServiceAccountToken": false, "securityContext.runAsNonRoot": true, "securityContext.runAsUser": 65532,
		"securityContext.seccompProfile.type": "RuntimeDefault",
	})
	container := pod.objects("containers")[0]
	grace, _ := pod["terminationGracePeriodSeconds"].(float64)
	if spare := time.Duration(grace)*time.Second - defaultDrainTime(t); spare < 10*time.Second {
		t.Errorf("after the drain %s are left of the grace period, want at least 10s", spare)
	}
	ports := map[string]float64{}
	for _, port := range container.objects("ports") {
		ports[port.text("name")], _ = port["containerPort"].(float64)
	}
	if ports["http"] != 8080 || ports["admin"] != 9090 {
		t.Errorf("the ports are %v, want http 8080 and admin 9090", ports)
	}
	admin := serve(t, testserver.Program(t, "release/tenantry"), []string{"TENANTRY_DATA_DIR=" + t.TempDir()}).text("admin")
	for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
		path, _ := container.member(probe + ".httpGet.path").(string)
		if status, _ := get(t, admin+path, ""); status != http.StatusOK || container.member(probe+".httpGet.port") != "admin" {
			t.Errorf("%s requests port %v, path %q, which answers %d, want the port admin and 200", probe, container.member(probe+".httpGet.port"), path, status)
		}
	}
}

var (
	pinnedImage   = regexp.MustCompile(`^[a-z0-9./-]+:[0-9][A-Za-z0-9._-]*$`)
	secretPattern = regexp.MustCompile(`(?i)password|secret|token|://[^/]*:[^/]*@|PRIVATE KEY`)
)

// checkContainer checks a container: the tag of its image, its environment variables and secrets,
// its volumes, its command and its security context.
func checkContainer(t *testing.T, container object) {
	t.Helper()
	checkMembers(t, container, object{
		"securityContext.readOnlyRootFilesystem": true, "securityContext.allowPrivilegeEscalation": false, "securityContext.capabilities.drop": "[ALL]",
	})
	if !pinnedImage.MatchString(container.text("image")) {
		t.Errorf("image %s is not pinned by a tag", container.text("image"))
	}
	for _, variable := range container.objects("env") {
		name, value := variable.text("name"), variable.text("value")
		if strings.HasPrefix(name, "TENANTRY_") {
			if key, _ := settings.SettingOfVariable(name, value); key == "" {
				t.Errorf("%s is not a setting", name)
			}
		}
		secretName := map[string]string{"TENANTRY_DATABASE_URL": "tenantry-database", "TENANTRY_REDIS_URL": "tenantry-redis"}[name]
		if secretPattern.MatchString(value) || secretName != "" && variable.member("valueFrom.secretKeyRef.name") != secretName {
			t.Errorf("%s contains a secret in clear text, or does not refer to its secret", name)
		}
	}
	mounted := map[string]bool{}
	for _, mount := range container.objects("volumeMounts") {
		mounted[mount.text("mountPath")] = true
	}
	if !mounted["/tmp"] || !mounted["/etc/tenantry/keyset"] || !mounted["/etc/tenantry/microsoft365"] {
		t.Errorf("%s mounts %v, want /tmp, the keyset and the credential of the mail plugin among them", container.text("name"), mounted)
	}
	args, _ := container["args"].([]any)
	if cmd, _, err := command.Root().Find([]string{fmt.Sprint(args[0])}); err != nil || cmd.Name() != args[0] {
		t.Errorf("%s runs %v, which is not a command", container.text("name"), args)
	}
}

// TestHelmChartHidesTheAdminListener checks that a Service with a cluster IP exposes only the API
// port, and that the ServiceMonitor reads the metrics from the admin port.
func TestHelmChartHidesTheAdminListener(t *testing.T) {
	t.Parallel()
	objects, err := renderChart(t, chartFolder, allValues())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.text("kind") != "Service" {
			continue
		}
		spec := object(o["spec"].(map[string]any))
		for _, p := range spec.objects("ports") {
			if p["targetPort"] != "http" && spec["clusterIP"] != "None" {
				t.Errorf("a Service with a cluster IP exposes the port %v", p)
			}
		}
	}
	monitor := objectOfKind(t, objects, "ServiceMonitor")
	if got := fmt.Sprint(monitor.member("spec.endpoints")); got != "[map[interval:30s path:/metrics port:admin]]" {
		t.Errorf("the monitor reads %s, want /metrics of the port admin every 30s", got)
	}
}

// TestHelmChartRefusesInvalidValues checks that the schema of the chart refuses invalid values, and
// that renderChart refuses a template with a field that Kubernetes does not have.
func TestHelmChartRefusesInvalidValues(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]object{
		"nothing is set":               nil,
		"a public URL with plain HTTP": {"publicURL": "http://api.tenantry.example"},
		"a public URL with a path":     {"publicURL": "https://api.tenantry.example/"},
		"no secret of the database":    {"database": object{"existingSecret": ""}},
		"no secret of the mail plugin": {"microsoft365": object{"clientID": "5f1c2b7e-0000-4c1d-9a2b-111122223333"}},
		"the image tag latest":         {"image": object{"tag": "latest"}},
		"a database URL as a setting":  {"settings": object{"database_url": "postgres://u:p@h/d"}},
		"a Redis URL as a setting":     {"settings": object{"redis_url": "redis://:p@h/0"}},
		"headers as a setting":         {"settings": object{"plugin_otlp_headers": "k=v"}},
		"a secret in telemetry":        {"telemetry": object{"OTEL_EXPORTER_OTLP_HEADERS": "k=v"}},
		"a port as a text":             {"networkPolicy": object{"egressPorts": []string{"8443"}}},
		"a misspelt value":             {"replicaCount": 3},
	} {
		values := []object{minimalValues(), wrong}
		if wrong == nil {
			values = nil
		}
		if _, err := renderChart(t, chartFolder, values...); err == nil {
			t.Errorf("the chart accepts invalid values: %s", name)
		}
	}
	chartCopy := t.TempDir()
	if err := os.CopyFS(chartCopy, os.DirFS(chartFolder)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(chartCopy, "templates", "deployment.yaml")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(raw), "  replicas:", "  replica:", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := renderChart(t, chartCopy, minimalValues()); err == nil || !strings.Contains(err.Error(), "replica") {
		t.Errorf("a misspelt field: %v, want an error about replica", err)
	}
}

const chartFolder = "helm/tenantry"

// renderChart renders a chart with these values and checks the objects. It runs the program of
// .ci/chart, which uses the code of Helm and Kubernetes.
func renderChart(t *testing.T, folder string, values ...object) ([]object, error) {
	t.Helper()
	args := []string{folder}
	for i, v := range values {
		raw, err := json.Marshal(v) // JSON is valid YAML
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), fmt.Sprintf("%d.yaml", i))
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	cmd := exec.Command(testserver.Program(t, "chart"), args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, &errs)
	}
	var objects []object
	err = json.Unmarshal(out, &objects)
	return objects, err
}

// minimalValues returns the values that the chart requires.
func minimalValues() object {
	return object{
		"publicURL": "https://api.tenantry.example",
		"database":  object{"existingSecret": "tenantry-database"},
		"keyset":    object{"existingSecret": "tenantry-keyset"},
	}
}

// allValues returns values that enable all parts of the chart.
func allValues() object {
	v := minimalValues()
	v["microsoft365"] = object{"clientID": "5f1c2b7e-0000-4c1d-9a2b-111122223333", "existingSecret": "tenantry-microsoft365", "settings": object{"home_tenant": "example.onmicrosoft.com"}}
	v["redis"] = object{"existingSecret": "tenantry-redis"}
	v["settings"] = object{"log_level": "debug", "require_smtp_auth": false}
	v["telemetry"] = object{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
	v["telemetrySecret"] = "tenantry-telemetry"
	v["serviceMonitor"] = object{"enabled": true}
	v["networkPolicy"] = object{"enabled": true, "egressPorts": []int{8443}, "monitoring": []object{{"namespaceSelector": object{}}}}
	return v
}

// kindsOf returns the kinds of the objects, sorted and separated by spaces.
func kindsOf(objects []object) string {
	var kinds []string
	for _, o := range objects {
		kinds = append(kinds, o.text("kind"))
	}
	slices.Sort(kinds)
	return strings.Join(kinds, " ")
}

// objectOfKind returns the first object of the kind. It fails the test if there is no such object.
func objectOfKind(t *testing.T, objects []object, kind string) object {
	t.Helper()
	for _, o := range objects {
		if o.text("kind") == kind {
			return o
		}
	}
	t.Fatalf("no %s is rendered", kind)
	return nil
}
