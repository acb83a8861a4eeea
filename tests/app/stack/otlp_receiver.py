"""An OTLP/gRPC collector that prints its port, then a JSON line for each span that comes.

Run by the engine's interpreter, which has gRPC; the tests' own has none.
"""

import json
from concurrent.futures import ThreadPoolExecutor

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as traces_grpc

# gRPC names the methods, and a program prints what it has to say.
# ruff: noqa: N802, T201


class Traces(traces_grpc.TraceServiceServicer):
    def Export(
        self, request: traces.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> traces.ExportTraceServiceResponse:
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    told = {a.key: a.value.string_value for a in span.attributes}
                    print(json.dumps({"name": span.name, "attributes": told}), flush=True)
        return traces.ExportTraceServiceResponse()


class Metrics(metrics_grpc.MetricsServiceServicer):
    def Export(
        self, request: metrics.ExportMetricsServiceRequest, context: grpc.ServicerContext
    ) -> metrics.ExportMetricsServiceResponse:
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                names = [metric.name for metric in scope.metrics]
                print(json.dumps({"metrics": names}), flush=True)
        return metrics.ExportMetricsServiceResponse()


def main() -> None:
    """Until its process is ended."""
    server = grpc.server(ThreadPoolExecutor(2))
    traces_grpc.add_TraceServiceServicer_to_server(Traces(), server)
    metrics_grpc.add_MetricsServiceServicer_to_server(Metrics(), server)
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
