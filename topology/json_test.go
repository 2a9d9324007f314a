package topology_test

import (
	"encoding/json"
	"testing"

	"nri-cpuset/topology"
)

// The JSON is a contract with those who read it: names, forms and order.
func TestMarshalJSON(t *testing.T) {
	tree := small.withPCI(1, 2).with(files{
		cpuDir + "online": "0-6\n", cpuDir + "isolated": "2-3\n",
		nodeDir + "online": "0-2\n", nodeDir + "node2/cpulist": "\n", nodeDir + "node2/meminfo": "Node 2 MemTotal: 0 kB\n",
		nodeDir + "node0/distance": "10 32 40\n", nodeDir + "node1/distance": "32 10 40\n",
	})
	m, err := topology.Read(tree.write(t))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"cpus":"0-6","offline":"7","isolated":"2-3","packages":["0-1,4-5","2-3,6"],"cores":["0,4","1,5","2,6","3"],` +
		`"lastLevelCaches":["0-1,4-5","2-3,6"],"numaNodes":[` +
		`{"id":0,"cpus":"0-1,4-5","memoryKiB":33554432,"hugePages":{"2048":512},"distances":[10,32]},` +
		`{"id":1,"cpus":"2-3,6","memoryKiB":33554432,"hugePages":{"2048":512},"distances":[32,10]}],` +
		`"leftOutNUMANodes":[{"id":2,"reason":"it has neither CPUs nor memory"}],` +
		`"pciDevices":{"0000:00:00.0":{"class":"0x020000","numaNode":0,"localCPUs":"0-1,4-5"}}}`
	if string(got) != want {
		t.Errorf("marshalled to\n%s, want\n%s", got, want)
	}
}

func TestMarshalJSONOfLittle(t *testing.T) {
	m, err := topology.ParseDescription([]byte(`{"name":"one","cpus":[{"id":0}],"numaNodes":[{"id":0,"memoryKiB":9}]}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(m)
	const want = `{"name":"one","cpus":"0","offline":"","isolated":"","packages":["0"],"cores":["0"],"lastLevelCaches":[],` +
		`"numaNodes":[{"id":0,"cpus":"0","memoryKiB":9,"hugePages":{}}],"pciDevices":{}}`
	if err != nil || string(got) != want {
		t.Errorf("marshalled to\n%s, %v, want\n%s", got, err, want)
	}
}
