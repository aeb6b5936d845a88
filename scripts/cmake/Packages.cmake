# A Debian package of what `cmake --install --component program` installs; scripts/package.sh makes it, and the source
# tarball, so that two builds of one commit give the same bytes.
set(CPACK_PACKAGE_NAME epsim)
set(CPACK_PACKAGE_VENDOR "The epsim authors")
set(CPACK_PACKAGE_CONTACT "The epsim authors <epsim@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME epsim)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "${PROJECT_DESCRIPTION}")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # the package script builds its target before
include(CPack)
