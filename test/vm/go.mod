module nri-cpuset/test/vm

go 1.26.6

require (
	k8s.io/utils v0.0.0-20260707023825-cf1189d6abe3
	nri-cpuset/test/e2e v0.0.0
)

require (
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260825221802-da73d73af1c5 // indirect
	google.golang.org/grpc v1.83.2 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	k8s.io/cri-api v0.37.0 // indirect
)

replace nri-cpuset/test/e2e => ../e2e
