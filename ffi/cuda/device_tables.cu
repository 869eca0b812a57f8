#include "cuda/device_tables.h"

#include <map>
#include <mutex>
#include <tuple>

namespace fhejax {
namespace {

struct Tables {
  std::mutex mutex;
  std::map<std::tuple<int, std::string, std::vector<uint64_t>>, const void*> tables;
};

Tables& TheTables() {
  static Tables& tables = *new Tables;
  return tables;
}

cudaError_t Upload(const void* host, size_t bytes, void** table) {
  cudaStream_t stream;  // of its own: the default one would wait for others
  cudaError_t status = cudaMalloc(table, bytes);
  if (status != cudaSuccess) return status;
  status = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (status != cudaSuccess) return status;
  status = cudaMemcpyAsync(*table, host, bytes, cudaMemcpyHostToDevice, stream);
  if (status == cudaSuccess) status = cudaStreamSynchronize(stream);
  const cudaError_t closed = cudaStreamDestroy(stream);
  return status == cudaSuccess ? closed : status;
}

}  // namespace

const void* FindTable(const TableKey& key) {
  Tables& tables = TheTables();
  const std::lock_guard<std::mutex> lock(tables.mutex);
  const auto found = tables.tables.find({key.device, key.name, key.words});
  return found == tables.tables.end() ? nullptr : found->second;
}

cudaError_t MakeTable(const TableKey& key, const void* host, size_t bytes, const void** table) {
  Tables& tables = TheTables();
  const std::lock_guard<std::mutex> lock(tables.mutex);
  const void*& entry = tables.tables[{key.device, key.name, key.words}];
  if (!entry) {  // no other thread was faster
    int before = 0;
    cudaError_t status = cudaGetDevice(&before);
    if (status == cudaSuccess) status = cudaSetDevice(key.device);
    if (status != cudaSuccess) return status;
    void* made = nullptr;
    status = Upload(host, bytes, &made);
    const cudaError_t restored = cudaSetDevice(before);
    if (status != cudaSuccess || restored != cudaSuccess) return status != cudaSuccess ? status : restored;
    entry = made;
  }
  *table = entry;
  return cudaSuccess;
}

}  // namespace fhejax
