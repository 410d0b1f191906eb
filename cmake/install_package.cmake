# Installs headers, libraries and a package config: find_package(passel CONFIG).
include(CMakePackageConfigHelpers)

get_property(_layers GLOBAL PROPERTY PASSEL_LAYERS)
install(TARGETS ${_layers} EXPORT passel_targets FILE_SET HEADERS)
install(EXPORT passel_targets NAMESPACE passel:: FILE passelTargets.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/passel)

configure_package_config_file(cmake/passelConfig.cmake.in passelConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/passel)
write_basic_package_version_file(passelConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/passelConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/passelConfigVersion.cmake cmake/libtorch.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/passel)
